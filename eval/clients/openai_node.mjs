// The openai package of npm: one half of the questions whole, the other as streams.
import { readFileSync } from "node:fs";
import OpenAI from "openai";

const [url, file] = process.argv.slice(2);
const client = new OpenAI({ baseURL: url, apiKey: "none" });
const answers = {};
for (const [number, question] of JSON.parse(readFileSync(file)).entries()) {
  const asked = { model: "madke", messages: [{ role: "user", content: question }] };
  if (number % 2) {
    const stream = client.chat.completions.stream(asked);
    answers[question] = (await stream.finalChatCompletion()).choices[0].message.content;
  } else {
    answers[question] = (await client.chat.completions.create(asked)).choices[0].message.content;
  }
}
console.log(JSON.stringify(answers));
