-- Remove content from the log: the only way for a service to change or delete stored events. Of the events at these
-- positions it deletes those of erased conversations, a tombstone after 35 days, once its erasure has ended; and it
-- empties feedback on behalf of end users who are being deleted, so that the log keeps that there was some.
CREATE FUNCTION remove_content(positions bigint[]) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    DELETE FROM conversation_events AS event
     WHERE notification_id = ANY (positions)
       AND EXISTS (SELECT FROM conversation_events AS erased
                    WHERE erased.originator_id = event.originator_id AND erased.topic = 'conversation_erased.v1')
       AND (topic <> 'conversation_erased.v1'
            OR at < clock_timestamp() - interval '35 days'
               AND NOT EXISTS (SELECT FROM erasures WHERE conversation_id = event.originator_id));
    UPDATE conversation_events
       SET topic = 'feedback_withdrawn.v1',
           state = convert_to((convert_from(state, 'UTF8')::jsonb - '{score,label,comment}'::text[] ||
                   '{"type": "feedback_withdrawn.v1", "on_behalf_of": "(deleted)"}'::jsonb)::text, 'UTF8')
     WHERE notification_id = ANY (positions)
       AND topic IN ('feedback_given.v1', 'feedback_withdrawn.v1')
       AND event_field(state, 'on_behalf_of') IN (SELECT user_id FROM user_deletions);
END;
REVOKE ALL ON FUNCTION remove_content(bigint[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION remove_content(bigint[]) TO agentchat_service;
