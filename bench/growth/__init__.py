"""How cost grows with what is stored, with open streams, and with the number of processes."""
