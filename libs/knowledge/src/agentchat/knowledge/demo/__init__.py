"""Provide the demo's knowledge base: the policies of the shop that the demo tool server sells for."""

from importlib import resources

from agentchat.knowledge.importing.document_drafts import Draft

NAME = "Alder & Finch: help"
KNOWLEDGE_BASE_ID = "019a0000-0000-7000-8000-000000000021"
"""Never changes, so that a second start finds it again."""


def load_demo_documents() -> list[Draft]:
    """Return the documents in the order of their names. Title and address are in their front matter."""
    files = sorted(resources.files(__package__).iterdir(), key=lambda file: file.name)
    return [
        Draft(name=file.name, text=file.read_text("utf-8"), kind="markdown")
        for file in files
        if file.name.endswith(".md")
    ]
