"""What can go wrong, and whose turn it is: every error foreword raises on purpose.

    ForewordError                  code, status, wire_type, param, details
    ├── RequestError               the caller can fix it
    │   ├── InvalidRequest         400  invalid_request
    │   │   └── MalformedRequest   400  malformed_request   (not JSON, or a wrong type)
    │   ├── UnsupportedFeature     400  unsupported_feature
    │   ├── TemplateRejected       400  template_rejected
    │   ├── PromptTooLong          400  prompt_too_long
    │   │   └── PromptTooManyChars 400  prompt_too_many_chars   (refused before any tokenization)
    │   ├── MediaWouldBeCut        400  media_would_be_cut
    │   ├── InvalidTokenIds        400  invalid_token_ids
    │   ├── ChatTemplateMissing    400  chat_template_missing
    │   ├── UnknownModel           404  unknown_model
    │   └── MediaUnavailable       422  media_unavailable
    ├── ModelError                 the operator must fix the model
    │   ├── AssetsInvalid          500  assets_invalid
    │   └── TemplateFailed         500  template_failed
    └── ServiceError               nobody is wrong: retry
        ├── Overloaded             503  overloaded
        ├── EngineFailed           500  engine_failed    (one request; not by itself to be retried)
        └── DeadlineExceeded       504  deadline_exceeded

Rules of this file: the class writes the sentence from its arguments: what happened, with numbers,
then what would make it work. `param` is a JSON path into the request (`messages[1].content`).
No prompt text and no path of the machine in a message that may leave it. Every error pickles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self, TypeVar

E = TypeVar("E", bound="ForewordError")


class ForewordError(Exception):
    """Base of every error foreword raises on purpose.

    `code` is stable and unique per class, `status` is the HTTP status, `wire_type` the `type`
    an OpenAI-style error body carries, `details` the numbers of the sentence by name.
    """

    code: ClassVar[str] = "error"
    status: ClassVar[int] = 500
    wire_type: ClassVar[str] = "InternalServerError"

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.details: dict[str, Any] = dict(details or {})

    def at(self, path: str) -> Self:
        """Return the same error of one among several values, which its sentence begins with.

        Shapes: a `param` that named them all names the one; another stays.
        """
        whole = path.partition("[")[0]
        param = path if self.param in (None, whole) else self.param
        return _restore(type(self), f"{path}: {self.message}", param, self.details)

    def __reduce__(self) -> tuple[Any, ...]:
        # Subclasses build their sentence from keyword arguments; a copy is made from the sentence.
        return _restore, (type(self), self.message, self.param, self.details)


def _restore(cls: type[E], message: str, param: str | None, details: dict[str, Any]) -> E:
    error = cls.__new__(cls)
    ForewordError.__init__(error, message, param=param, details=details)
    return error


# ---------------------------------------------------------------------------------------------
# The caller can fix it.


class RequestError(ForewordError):
    """The request is at fault; the same request will fail again."""

    code = "request_error"
    status = 400
    wire_type = "BadRequestError"


class InvalidRequest(RequestError):
    """A well-formed request asks for something that contradicts itself or a limit."""

    code = "invalid_request"


class MalformedRequest(InvalidRequest):
    """The body is not JSON, or a field has the wrong type; `param` is the path to it."""

    code = "malformed_request"
    wire_type = "Bad Request"  # vLLM answers schema errors with the HTTP phrase as the type


class UnsupportedFeature(RequestError):
    """The request uses, by name, something this installation does not do."""

    code = "unsupported_feature"

    def __init__(self, *, feature: str, remedy: str, param: str | None = None) -> None:
        super().__init__(
            f"{feature} is not supported here. {remedy}",
            param=param,
            details={"feature": feature},
        )


class TemplateRejected(RequestError):
    """The chat template refused this conversation (`raise_exception`), or its data broke it."""

    code = "template_rejected"

    def __init__(self, *, reason: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(
            f"The model's chat template does not accept this conversation: {reason}",
            details={"reason": reason, **(details or {})},
        )


class PromptTooLong(RequestError):
    """The prompt exceeds what the context, or the budget the caller set, can hold."""

    code = "prompt_too_long"

    def __init__(
        self,
        *,
        num_tokens: int,
        max_tokens: int,
        is_lower_bound: bool = False,
        max_output_tokens: int | None = None,
        max_model_len: int | None = None,
        param: str = "input_tokens",
    ) -> None:
        count = f"at least {num_tokens}" if is_lower_bound else str(num_tokens)
        sentence = f"The prompt has {count} tokens"
        if max_output_tokens and max_model_len is not None:
            sentence += f" and {max_output_tokens} more were requested, but the context holds"
            room = max_model_len - num_tokens
            sentence += f" {max_model_len}. " + (
                f"Request at most {room} output tokens, or shorten the prompt."
                if room > 0
                else "Shorten the prompt."
            )
        else:
            if max_model_len is not None and max_tokens < max_model_len:
                sentence += f"; the context holds {max_model_len} and at least one must follow,"
                sentence += f" so at most {max_tokens} fit."
            else:
                sentence += f", but at most {max_tokens} fit."
            sentence += (
                " Shorten it, or set truncate_prompt_tokens (and truncation_side) to cut it."
            )
        super().__init__(
            sentence,
            param=param,
            details={
                "num_tokens": num_tokens,
                "max_tokens": max_tokens,
                "is_lower_bound": is_lower_bound,
                "max_output_tokens": max_output_tokens,
                "max_model_len": max_model_len,
            },
        )


class PromptTooManyChars(PromptTooLong):
    """The prompt has so many characters that no tokenization of it could fit: the O(1) gate."""

    code = "prompt_too_many_chars"

    def __init__(self, *, num_chars: int, max_chars: int, max_tokens: int) -> None:
        RequestError.__init__(
            self,
            f"The prompt has {num_chars} characters; {max_tokens} tokens of this model can stand"
            f" for at most {max_chars}. Shorten it, or set truncate_prompt_tokens and"
            " truncation_side to cut it.",
            param="input_text",
            details={"num_chars": num_chars, "max_chars": max_chars, "max_tokens": max_tokens},
        )


class MediaWouldBeCut(RequestError):
    """Truncation would cut through, or drop, a media item; items are never split."""

    code = "media_would_be_cut"

    def __init__(
        self, *, modality: str, index: int, start: int, stop: int, kept: tuple[int, int]
    ) -> None:
        super().__init__(
            f"Truncation keeps tokens {kept[0]} to {kept[1]}, but {modality} {index} occupies"
            f" tokens {start} to {stop} and media is never split. Raise truncate_prompt_tokens,"
            " choose the other truncation_side, or drop the item.",
            param="truncate_prompt_tokens",
            details={
                "modality": modality,
                "index": index,
                "start": start,
                "stop": stop,
                "kept": list(kept),
            },
        )


class InvalidTokenIds(RequestError):
    """A token id is not an id of this model's vocabulary."""

    code = "invalid_token_ids"

    def __init__(self, *, token_id: int, position: int, max_token_id: int, param: str) -> None:
        super().__init__(
            f"Token id {token_id} at position {position} is not in the vocabulary:"
            f" ids are integers from 0 to {max_token_id}.",
            param=param,
            details={"token_id": token_id, "position": position, "max_token_id": max_token_id},
        )


class ChatTemplateMissing(RequestError):
    """The model has no chat template, so a chat request cannot be rendered."""

    code = "chat_template_missing"

    def __init__(
        self, *, available: Sequence[str] = (), wanted: str | None = None, hint: str = ""
    ) -> None:
        if wanted is not None:
            sentence = f"The model has no chat template named {wanted!r}"
            sentence += f" (it has {', '.join(available)})." if available else "."
        elif available:
            sentence = f"The model has chat templates ({', '.join(available)}) but no default one."
        else:
            sentence = "The model has no chat template."
        super().__init__(
            f"{sentence} Send a plain completion request, or load the model with a chat template."
            + (f" {hint}" if hint else ""),
            details={"available": list(available), "wanted": wanted},
        )


class UnknownModel(RequestError):
    """No model of that name is served here."""

    code = "unknown_model"
    status = 404
    wire_type = "NotFoundError"

    def __init__(self, *, name: str, available: Sequence[str]) -> None:
        super().__init__(
            f"The model {name!r} does not exist here. Served: {', '.join(available)}.",
            param="model",
            details={"name": name, "available": list(available)},
        )


class MediaUnavailable(RequestError):
    """A media reference could not be fetched or understood."""

    code = "media_unavailable"
    status = 422
    wire_type = "UnprocessableEntityError"


# ---------------------------------------------------------------------------------------------
# The operator must fix the model.


class ModelError(ForewordError):
    """The model's own files are at fault; no request of this kind can succeed."""

    code = "model_error"


class AssetsInvalid(ModelError):
    """A file of the model is missing or broken; names the file and what is wrong."""

    code = "assets_invalid"

    def __init__(self, *, file: str, problem: str, remedy: str = "") -> None:
        super().__init__(
            f"{file}: {problem}{' ' + remedy if remedy else ''}",
            details={"file": file, "problem": problem},
        )


class TemplateFailed(ModelError):
    """The chat template does not compile, or needs something no engine gives it."""

    code = "template_failed"

    def __init__(self, *, reason: str, line: int | None = None) -> None:
        where = f" (line {line})" if line else ""
        super().__init__(
            f"The model's chat template is broken{where}: {reason}."
            " The operator can replace it with --chat-template.",
            details={"reason": reason, "line": line},
        )


# ---------------------------------------------------------------------------------------------
# Nobody is wrong: retry.


class ServiceError(ForewordError):
    """The service could not do it now; the same request may succeed later."""

    code = "service_error"
    status = 503
    wire_type = "ServiceUnavailableError"


class Overloaded(ServiceError):
    """The queue is full; refused at once rather than kept waiting."""

    code = "overloaded"


class EngineFailed(ServiceError):
    """The engine gave this one request up, and may do so again."""

    code = "engine_failed"
    status = 500
    wire_type = "InternalServerError"


class DeadlineExceeded(ServiceError):
    """The work did not end in its time and was stopped."""

    code = "deadline_exceeded"
    status = 504
    wire_type = "DeadlineExceededError"
