"""The commands of the terminal client: a line that begins with `/`."""

from collections.abc import Awaitable, Callable

import msgspec

from agentchat_client import AgentChatError, Conversation
from agentchat_client.api_calls import Form
from ops.chat.chat_session import Session
from ops.chat.screen import Screen
from ops.errors import SetupError
from ops.output import clean, one_line

_LISTED = 15
_SHOWN_MESSAGES = 4


class SlashCommand(msgspec.Struct, frozen=True):
    """`run` takes the text after the command's name."""

    usage: str
    meaning: str
    run: Callable[[Session, Screen, str], Awaitable[None]] | None


async def run(line: str, session: Session, screen: Screen) -> bool:
    """Run the command, and report errors. False: the program is to end."""
    name, _, argument = line.partition(" ")
    command = COMMANDS.get(name.lower())
    if command is None:
        screen.fail(f"no command {one_line(name, 40)}; /help lists them (//… sends a message with a slash)")
        return True
    if command.run is None:
        return False
    try:
        await command.run(session, screen, argument.strip())
    except (AgentChatError, SetupError) as error:
        screen.fail(str(error))
    return True


async def _new(session: Session, screen: Screen, _: str) -> None:
    session.begin_thread()
    screen.say("The next message begins a new thread.")


async def _resume(session: Session, screen: Screen, argument: str) -> None:
    if not argument:
        await _list(session, screen)
        return
    thread = await _chosen(session, argument)
    if thread is None:
        screen.fail(f"no thread {one_line(argument, 60)}: give a number of the list, or an id")
        return
    messages = [message async for message in session.client.messages(thread.conversation_id)]
    session.resume(thread)
    if len(messages) > _SHOWN_MESSAGES:
        screen.say(f"… {len(messages) - _SHOWN_MESSAGES} messages before; /history shows them")
    screen.messages(messages[-_SHOWN_MESSAGES:])


async def _list(session: Session, screen: Screen) -> None:
    session.listed = await _recent(session)
    if not session.listed:
        screen.say("There are no threads yet.")
        return
    screen.threads(session.listed, session.conversation_id)
    screen.say("/resume N continues one.")


async def _chosen(session: Session, argument: str) -> Conversation | None:
    if not (argument.isascii() and argument.isdigit()):
        return await session.client.conversation(argument)
    session.listed = session.listed or await _recent(session)
    number = int(argument[:9])
    return session.listed[number - 1] if 1 <= number <= len(session.listed) else None


async def _recent(session: Session) -> tuple[Conversation, ...]:
    return tuple([thread async for thread in session.client.conversations(_LISTED)])


async def _history(session: Session, screen: Screen, _: str) -> None:
    if session.conversation_id is None:
        screen.say("This thread has no messages yet; /resume lists the others.")
        return
    screen.messages([message async for message in session.client.messages(session.conversation_id)])
    screen.say(f"thread {session.conversation_id}")


async def _agent(session: Session, screen: Screen, argument: str) -> None:
    if argument:
        ended = session.use(argument)
        note = "; it belongs to another account, so a new thread begins" if ended else ""
        screen.say(f"Chatting with {session.agent.name} (form {session.form}){note}.")
        return
    here = session.agent
    screen.pairs(
        [(f"{'*' if agent == here else ' '} {agent.name}", agent.agent_id) for agent in session.agents]
    )
    screen.say("/agent NAME or /agent ID selects another one.")


async def _tools(session: Session, screen: Screen, _: str) -> None:
    if session.tools:
        screen.tools(session.tools)
    elif session.form == 1:
        screen.say("Form 1 does not report tools; /form 2 does.")
    else:
        screen.say("No tool ran for the last reply.")


async def _sources(session: Session, screen: Screen, _: str) -> None:
    if session.sources:
        screen.sources(session.sources)
    elif session.form == 2:
        screen.say("Form 2 does not report sources; /form 1 does.")
    else:
        screen.say("The last reply has no sources.")


async def _form(session: Session, screen: Screen, argument: str) -> None:
    forms: dict[str, Form | None] = {"1": 1, "2": 2, "auto": None}
    if argument and argument not in forms:
        screen.fail("/form 1, /form 2 or /form auto")
        return
    session.chosen_form = forms.get(argument, session.chosen_form)
    default = "" if session.chosen_form else ", the default of this agent"
    screen.say(
        f"Form {session.form}{default}. 1 lists the sources of agents with a knowledge base; "
        "2 shows tools as they run, where the plan has it."
    )


async def _help(session: Session, screen: Screen, _: str) -> None:
    screen.pairs([(command.usage, command.meaning) for command in COMMANDS.values()])
    screen.pairs(
        [
            ("Alt-Enter", "a new line in the message; so does \\ at a line's end"),
            ("Ctrl-C", "stops the reply that is being written; at the prompt it clears the line"),
            ("Ctrl-D", "leaves"),
        ]
    )
    screen.say(clean(f"{session.agent.name} at {session.base_url}"))


COMMANDS: dict[str, SlashCommand] = {
    "/new": SlashCommand("/new", "begin a new thread", _new),
    "/resume": SlashCommand("/resume [N or ID]", "list recent threads, or continue one", _resume),
    "/history": SlashCommand("/history", "show this thread's messages", _history),
    "/agent": SlashCommand("/agent [NAME or ID]", "list the known agents, or select another one", _agent),
    "/tools": SlashCommand("/tools", "show the inputs and outputs of the last reply's tools", _tools),
    "/sources": SlashCommand("/sources", "show the last reply's sources again", _sources),
    "/form": SlashCommand(
        "/form [1, 2 or auto]", "how replies are streamed: with sources, or with tools", _form
    ),
    "/help": SlashCommand("/help", "show this", _help),
    "/quit": SlashCommand("/quit", "leave", None),
}
