// The AI SDK with @ai-sdk/openai-compatible: one half of the questions whole, the other as streams, with the turns as
// reasoning in both.
import { readFileSync } from "node:fs";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, streamText } from "ai";

const [url, file] = process.argv.slice(2);
const madke = createOpenAICompatible({ name: "madke", baseURL: url, apiKey: "none", includeUsage: true });
const answers = {};
for (const [number, prompt] of JSON.parse(readFileSync(file)).entries()) {
  const result = number % 2 ? streamText({ model: madke("madke"), prompt }) : await generateText({ model: madke("madke"), prompt });
  answers[prompt] = await result.text;
  const reasoning = await result.reasoningText;
  if (!reasoning?.includes("### Round 1")) throw new Error(`no turns as reasoning: ${reasoning}`);
  if (!((await result.usage).totalTokens > 0)) throw new Error("no usage");
}
console.log(JSON.stringify(answers));
