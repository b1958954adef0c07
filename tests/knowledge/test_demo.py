"""The demo's knowledge base answers what customers ask, and agrees with the shop's own help pages."""

import json
from importlib import resources

import pytest

from agentchat.knowledge import demo
from agentchat.knowledge.documents import parse
from agentchat.runtime.postgres import Pool
from tests.knowledge.shelf import Shelf

QUESTIONS = [
    ("How long do I have to return boots that do not fit?", "How long you can return something"),
    ("Do I pay for the return label?", "How to send something back"),
    ("I want to exchange the jacket for a bigger size", "Exchanges for another size or colour"),
    ("What does shipping cost?", "What delivery costs"),
    ("Do you deliver to Switzerland?", "Where we deliver"),
    ("My parcel has not moved for days", "Following a parcel"),
    ("how to cancel my order", "Changing the address or cancelling"),
    ("A tent pole cracked, is that covered?", "What the guarantee covers"),
    ("how much is a new zip", "Repairs after the guarantee"),
    ("Can I pay with PayPal?", "Ways to pay"),
    ("I was charged twice", "When you are charged"),
    ("card declined", "Payment declined"),
    ("How do gift cards work", "Vouchers and gift cards"),
    ("how do I become a gold customer", "How you become one"),
    ("Do you sell my data?", "Who gets your data"),
    ("unsubscribe from the newsletter", "Newsletter and cookies"),
    ("how should I store a wet tent", "Drying and storing"),
    ("waterproof my rain jacket again", "Rain jackets"),
    ("my water filter froze", "Water filters"),
]
FIGURES = [
    "within 30 days of delivery",
    "within five working days of the parcel's arrival",
    "two to five days",
    "free from 75 eur; below that it costs 5.90 eur",
    "invoice with 14 days to pay",
    "guarantee of two years",
    "at cost price",
    "from 500 eur you are a silver customer, from 1000 eur a gold one",
]


@pytest.fixture(scope="module")
async def policies(pool: Pool) -> Shelf:
    shelf = await Shelf.create(pool)
    for draft in demo.load_demo_documents():
        await shelf.put(draft.name, draft.text, kind=draft.kind)
    return shelf


def test_each_document_has_a_title_and_an_address() -> None:
    drafts = demo.load_demo_documents()
    assert len(drafts) == 7
    for draft in drafts:
        parsed = parse(draft.text, draft.kind)
        assert parsed.title
        assert parsed.url
        assert parsed.url.startswith("https://alder-finch.example/help/")


@pytest.mark.parametrize(("question", "heading"), QUESTIONS)
async def test_a_customers_question_finds_its_passage_first(
    policies: Shelf, question: str, heading: str
) -> None:
    found = await policies.ask(question)
    assert heading in found[0].source.title


async def test_a_question_of_something_else_finds_nothing(policies: Shelf) -> None:
    assert await policies.ask("Who painted the ceiling of the Sistine Chapel?") == []


@pytest.mark.parametrize("figure", FIGURES)
def test_the_policies_agree_with_the_shops_help_articles(figure: str) -> None:
    records = resources.files("agentchat.mcp_demo.shop") / "records" / "articles.json"
    articles = [article["text"].lower() for article in json.loads(records.read_text("utf-8"))]
    policies = [" ".join(draft.text.split()).lower() for draft in demo.load_demo_documents()]
    assert any(figure in text for text in articles)
    assert any(figure in text for text in policies)
