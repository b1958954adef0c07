"""Translate exceptions into refusals: Litestar's `exception_handlers`."""

from typing import Any

from litestar import Request, Response
from litestar.exceptions import HTTPException, ValidationException

from agentchat.bus.errors import BusUnavailable
from agentchat.contracts import http
from agentchat.contracts.admin_errors import AdminError
from agentchat.conversations.errors import UnknownEvent
from agentchat.files.errors import FileGone, FileRefused, FilesError, FileTooLarge, QuotaExceeded
from agentchat.gateway.http.problems import ClientDisconnected, Refusal, make_printable, to_refusal
from agentchat.gateway.http.request_context import get_context
from agentchat.runtime import logs
from agentchat.runtime.postgres import DatabaseUnavailable

AnyRequest = Request[Any, Any, Any]

_CODES = {404: "not_found", 405: "method_not_allowed", 413: "message_too_large"}
_MAX_FIELDS = 20
_OPENAI_PATHS = ("/chat/completions", "/responses", "/models")
_CLIENT_CLOSED_REQUEST = 499
"""The status that nginx logs: nobody receives this answer."""


def _refuse(request: AnyRequest, refusal: Refusal) -> Response[bytes]:
    body, headers = get_context(request).format_refusal(refusal)
    return Response(body, status_code=refusal.row.status, headers=headers)


def _refuse_for_litestar(request: AnyRequest, error: HTTPException) -> Response[bytes]:
    """Answer what the framework refuses: no such address or method, a parameter that is wrong."""
    if error.status_code >= 500:
        return _refuse_internal_error(request, error)
    status = 404 if _is_path_of_openai(request) else error.status_code
    code = _CODES.get(status, "invalid_request")
    if isinstance(error, ValidationException) and isinstance(error.extra, list) and error.extra:
        # Litestar lists a body that may be left out, and was, among what is wrong.
        found = [each for each in error.extra if each.get("key") != "data"] or error.extra
        fields = [_name_field(request, each) for each in found[:_MAX_FIELDS]]
        detail = "; ".join(f"{each.field}: {each.message}" for each in fields)
        return _refuse(request, Refusal(code, detail, fields=fields))
    allow = (error.headers or {}) if status == 405 else {}
    allowed = {name.lower(): value for name, value in allow.items() if name.lower() == "allow"}
    said = error.detail if status == 400 else None
    if status == 404:
        said = _describe_unknown_path(request)
    if status == 413:
        said = f"The body is larger than {request.route_handler.resolve_request_max_body_size()} bytes."
    return _refuse(request, Refusal(code, said, headers=allowed))


def _is_path_of_openai(request: AnyRequest) -> bool:
    """Return True for a path of OpenAI's API without our prefix: 404, even if it looks like a run's path."""
    path = request.scope["path"]
    return path.startswith("/v1/") and path.endswith(_OPENAI_PATHS)


def _describe_unknown_path(request: AnyRequest) -> str:
    path = make_printable(request.scope["path"])
    hint = " OpenAI clients use base_url …/openai/v1." if path.endswith(_OPENAI_PATHS) else ""
    return f"No such endpoint: {request.scope['method']} {path}.{hint}"


def _name_field(request: AnyRequest, found: Any) -> http.FieldError:
    """Name a parameter as the caller does: Litestar names it by the handler's argument."""
    name, parameters = found.get("key", ""), request.route_handler.parsed_fn_signature.parameters
    if name == "data":
        return http.FieldError(field="body", message="A JSON object is required.")
    if name in parameters:
        name = getattr(parameters[name].kwarg_definition, "name", None) or name
    return http.FieldError(field=make_printable(name), message=found["message"])


def _refuse_unavailable(request: AnyRequest, error: Exception) -> Response[bytes]:
    logs.get_logger("gateway").warning("unavailable", reason=str(error))
    return _refuse(request, Refusal("overloaded", "The service is temporarily unavailable. Try again."))


def _refuse_file(request: AnyRequest, error: FilesError) -> Response[bytes]:
    """Answer why a file is not stored, or has no content any more."""
    match error:
        case FileTooLarge():
            code = "file_too_large"
        case QuotaExceeded():
            code = "storage_full"
        case FileRefused():
            code = "unsupported_attachment"
        case FileGone():
            code = "file_not_found"
        case _:
            return _refuse_unavailable(request, error)
    return _refuse(request, Refusal(code, str(error)))


def _refuse_newer_release(request: AnyRequest, error: Exception) -> Response[bytes]:
    """Answer 503, so that the request is repeated: another gateway may be able to read it."""
    logs.get_logger("gateway").warning("event_unknown", reason=str(error))
    return _refuse(
        request, Refusal("overloaded", "This was stored by a newer release of the service. Try again.")
    )


def _refuse_internal_error(request: AnyRequest, error: Exception) -> Response[bytes]:
    """Log a fault of ours; the caller does not see it."""
    logs.get_logger("gateway").error("request_failed", exc_info=error)
    return _refuse(request, Refusal("internal_error"))


EXCEPTION_HANDLERS: dict[int | type[Exception], Any] = {
    Refusal: _refuse,
    ClientDisconnected: lambda _, __: Response(None, status_code=_CLIENT_CLOSED_REQUEST),
    AdminError: lambda request, error: _refuse(request, to_refusal(error)),
    BusUnavailable: _refuse_unavailable,
    DatabaseUnavailable: _refuse_unavailable,
    FilesError: _refuse_file,
    UnknownEvent: _refuse_newer_release,
    HTTPException: _refuse_for_litestar,
    Exception: _refuse_internal_error,
}
