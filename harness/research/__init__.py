"""Research: the loop, its gate and its guard."""
