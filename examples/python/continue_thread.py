"""Ask twice in one thread, with asyncio, then read the thread back: python continue_thread.py"""

import asyncio
import os

from agentchat.client import AsyncAgentChat


async def main() -> None:
    key, url, agent = os.environ["API_KEY"], os.environ["BASE_URL"], os.environ["AGENT_ID"]
    async with AsyncAgentChat(key, base_url=url, agent_id=agent) as client:
        first = await client.chat("Hello, my name is Ada.")
        # Store the conversation_id with your own user: it is all that a thread needs to go on.
        await client.chat("What is my name?", first.conversation_id)
        async for message in client.messages(first.conversation_id):
            print(f"{message.role}: {message.content}")


asyncio.run(main())
