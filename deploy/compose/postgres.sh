#!/bin/sh
# Starts the Postgres of deploy/compose.yaml as its user: `primary`, or `standby`, which copies the primary first.
set -eu
role=$1; shift

# Postgres takes a key that only its user can read; a mounted secret can be read by all of the container's.
umask 077
cp /run/secrets/postgres.key "$KEY_FILE"

if [ "$role" = primary ]; then
    exec docker-entrypoint.sh postgres "$@"
fi

if [ ! -s "$PGDATA/PG_VERSION" ]; then
    PGPASSWORD=$(cat /run/secrets/postgres-replication)
    export PGPASSWORD
    primary="host=$PRIMARY user=agentchat_replication sslmode=verify-full sslrootcert=/run/secrets/ca.crt"
    # Into a folder next to it: a copy that was cut off is made again. The primary keeps its log for the slot.
    rm -rf "$PGDATA.new"
    mkdir -p "$(dirname "$PGDATA")"
    pg_basebackup -d "$primary" -D "$PGDATA.new" -R -X stream -C -S standby ||
        pg_basebackup -d "$primary" -D "$PGDATA.new" -R -X stream -S standby
    rm -rf "$PGDATA"
    mv "$PGDATA.new" "$PGDATA"
fi
exec postgres "$@"
