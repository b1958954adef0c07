"""Forks of which not all copies are stored yet: nobody finds such a conversation (`database.FOUND`).

The append of a ConversationForked with `copies` enters it here, that of the last copy takes it out, each in
the same transaction. One whose worker was killed is gone on with when its command comes again, or is removed.
"""

from runtime.postgres import Pool, connection

TABLES = """
CREATE TABLE unfinished_forks (
    conversation_id text PRIMARY KEY,
    version bigint NOT NULL,
    began_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
GRANT SELECT ON unfinished_forks TO agentchat_service;

CREATE FUNCTION enter_unfinished_fork() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO public.unfinished_forks (conversation_id, version)
    SELECT NEW.originator_id, NEW.originator_version + copies
      FROM (SELECT (convert_from(NEW.state, 'UTF8')::json ->> 'copies')::bigint AS copies) AS forked
     WHERE copies > 0;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION enter_unfinished_fork() FROM PUBLIC;
CREATE TRIGGER enter_unfinished_fork AFTER INSERT ON conversation_events
    FOR EACH ROW WHEN (NEW.topic = 'conversation_forked.v1') EXECUTE FUNCTION enter_unfinished_fork();

CREATE FUNCTION leave_unfinished_forks() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF EXISTS (SELECT FROM public.unfinished_forks) THEN
        DELETE FROM public.unfinished_forks AS fork USING added
         WHERE fork.conversation_id = added.originator_id
           AND (added.originator_version >= fork.version OR added.topic = 'conversation_erased.v1');
    END IF;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION leave_unfinished_forks() FROM PUBLIC;
CREATE TRIGGER leave_unfinished_forks AFTER INSERT ON conversation_events
    REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION leave_unfinished_forks();
"""


async def abandoned_forks(pool: Pool, *, seconds: float) -> list[str]:
    """Their ids, where they were begun so long ago. Raises DatabaseUnavailable."""
    async with connection(pool) as conn:
        rows = await (await conn.execute(_ABANDONED, [seconds])).fetchall()
    return [each for (each,) in rows]


_ABANDONED = """
SELECT conversation_id FROM unfinished_forks
 WHERE began_at < clock_timestamp() - make_interval(secs => %s) ORDER BY began_at LIMIT 100
"""
