"""How long tests wait for a process that they have started."""

START_SECONDS = (
    90.0  # less than pytest gives a test; 2 s where nothing else runs, 20 s next to several others
)
