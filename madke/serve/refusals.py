"""Requests that are not answered, as OpenAI's errors; and the bodies of requests as records."""

from typing import TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse

Body = TypeVar("Body", bound=BaseModel)


class Refusal(Exception):
    """A request that is not answered: its HTTP status, and OpenAI's error."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
        retry_after: int | None = None,
        retryable: bool = True,
    ) -> None:
        super().__init__(message)
        self.status, self.message = status, message
        self.error = {"error": {"message": message, "type": kind, "param": param, "code": code}}
        self._headers = {} if retry_after is None else {"retry-after": str(retry_after)}
        if not retryable:
            self._headers["x-should-retry"] = "false"  # the SDKs of OpenAI obey it

    def response(self) -> JSONResponse:
        """The response, in OpenAI's form."""
        return JSONResponse(self.error, status_code=self.status, headers=self._headers)


async def body_of(request: Request, kind: type[Body]) -> Body:
    """The JSON body of a request; Refusal if it is not one. Takes linear time."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != "application/json":  # what a page of another site cannot send without asking first
        raise Refusal(400, "the content-type must be application/json")
    try:
        return kind.model_validate_json(await request.body())
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
    if first["type"] == "json_invalid":
        raise Refusal(400, f"the body is not JSON: {first['ctx']['error']}")
    place = ".".join(str(part) for part in first["loc"])[:100]
    reason = first["msg"].removeprefix("Value error, ")
    raise Refusal(400, f"{place or 'the body'}: {reason}", param=place or None)
