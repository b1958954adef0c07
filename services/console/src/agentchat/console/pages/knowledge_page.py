"""Show and change knowledge bases: documents, uploads, and a search with scores."""

from typing import Any

from litestar import Response, get, post
from litestar.datastructures import UploadFile
from litestar.params import FromPath
from litestar.response import Redirect

from agentchat.administration import admin_accounts, admin_documents, admin_knowledge
from agentchat.administration.admin_values import NewDocument, NewKnowledgeBase
from agentchat.console.shared.access_check import AnyRequest, get_admin
from agentchat.console.shared.confirmation import Question, ask
from agentchat.console.shared.console_roles import Role
from agentchat.console.shared.directory_lists import list_account_choices, load_account_names
from agentchat.console.shared.rendering import render_page
from agentchat.console.shared.schema_forms import BodyForm, RefusedForm
from agentchat.contracts.admin_errors import AdminError, Invalid
from agentchat.knowledge.documents import Kind

_NEW = BodyForm(NewKnowledgeBase, leave_out=("account_id", "id"))
_BINARY: dict[str, Kind] = {"pdf": "pdf", "docx": "docx"}
_TEXTS: dict[str, Kind] = {
    "md": "markdown",
    "markdown": "markdown",
    "html": "html",
    "htm": "html",
    "txt": "text",
    "text": "text",
}


@get("/knowledge", role=Role.VIEWER, filtered=True)
async def get_bases(request: AnyRequest, cursor: str | None = None) -> Response[Any]:
    """List the knowledge bases, with a form for a new one."""
    return await _render_bases(request, cursor)


@post("/knowledge", status_code=200, role=Role.OPERATOR, filtered=True)
async def post_base(request: AnyRequest) -> Response[Any]:
    """Create a knowledge base."""
    given = await request.form()
    try:
        body = _NEW.read_body(given, account_id=str(given.get("account_id", "")))
        made = await admin_knowledge.create(get_admin(request), body)
    except AdminError as error:
        return await _render_bases(request, None, RefusedForm(given, error))
    return Redirect(f"/knowledge/{made.id}", status_code=303)


async def _render_bases(
    request: AnyRequest, cursor: str | None, refused: RefusedForm | None = None
) -> Response[Any]:
    found = await admin_knowledge.page(get_admin(request), after=cursor, limit=50)
    return render_page(
        request,
        "knowledge_bases.html",
        title="Knowledge bases",
        bases=found.items,
        names=await load_account_names(request, {each.account_id for each in found.items}),
        choices=await list_account_choices(request),
        account_id=str(refused.given.get("account_id", "")) if refused else "",
        next_cursor=found.after,
        fields=_NEW.fill(None, refused),
        refused=refused,
    )


@get("/knowledge/{base_id:str}", role=Role.VIEWER)
async def get_base(
    request: AnyRequest, base_id: FromPath[str], q: str = "", cursor: str | None = None
) -> Response[Any]:
    """Show a knowledge base and its documents; with `q`, the results of a search."""
    return await _render_base(request, base_id, q, cursor)


@post(
    "/knowledge/{base_id:str}/documents",
    status_code=200,
    request_max_body_size=4 * 1024 * 1024,
    role=Role.OPERATOR,
)
async def post_document(request: AnyRequest, base_id: FromPath[str]) -> Response[Any]:
    """Add a file, or replace the document of the same name."""
    given = await request.form()
    try:
        await admin_documents.put(get_admin(request), base_id, await _read_document(given.get("file")))
    except AdminError as error:
        return await _render_base(request, base_id, "", None, RefusedForm(given, error))
    return Redirect(f"/knowledge/{base_id}", status_code=303)


@post("/knowledge/{base_id:str}/documents/{document_id:str}/delete", status_code=200, role=Role.OWNER)
async def post_delete_document(
    request: AnyRequest, base_id: FromPath[str], document_id: FromPath[str]
) -> Response[Any]:
    """Delete a document."""
    given, admin = await request.form(), get_admin(request)
    document = await admin_documents.get(admin, base_id, document_id)
    question = Question(
        title=f"Delete the document {document.name}?",
        text="Agents no longer find its passages. It cannot be undone.",
        button="Delete the document",
        back=f"/knowledge/{base_id}",
    )
    if asked := ask(request, given, question):
        return asked
    await admin_documents.delete(admin, base_id, document_id)
    return Redirect(f"/knowledge/{base_id}", status_code=303)


async def _render_base(
    request: AnyRequest, base_id: str, q: str, cursor: str | None, refused: RefusedForm | None = None
) -> Response[Any]:
    admin = get_admin(request)
    base = await admin_knowledge.get(admin, base_id)
    documents = await admin_documents.page(admin, base_id, after=cursor, limit=50)
    return render_page(
        request,
        "knowledge_base.html",
        title=base.name,
        base=base,
        account=await admin_accounts.get(admin, base.account_id),
        documents=documents.items,
        next_cursor=documents.after,
        q=q,
        found=await admin_knowledge.search(admin, base_id, q, 10) if q.strip() else None,
        refused=refused,
    )


async def _read_document(file: Any) -> NewDocument:
    """Read an uploaded file as a document. Raises Invalid."""
    if not isinstance(file, UploadFile) or not file.filename:
        raise Invalid("file", "is missing: choose a file")
    ending = file.filename.rpartition(".")[2].lower()
    data = await file.read()
    if ending in _BINARY:
        return NewDocument(name=file.filename, kind=_BINARY[ending], content=data)
    if ending not in _TEXTS:
        raise Invalid("file", f"must end in one of {', '.join(sorted((*_TEXTS, *_BINARY)))}")
    try:
        return NewDocument(name=file.filename, kind=_TEXTS[ending], text=data.decode())
    except UnicodeDecodeError:
        raise Invalid("file", "is not UTF-8 text") from None


HANDLERS = (get_bases, post_base, get_base, post_document, post_delete_document)
