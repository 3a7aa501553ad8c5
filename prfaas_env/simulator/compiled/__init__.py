"""The compiled engine: the laws of the reference engine, event for event, over flat arrays (numba).

Read it from the bottom: ``timers`` (the calendar) → ``accounts`` → ``link`` → ``decode`` → ``prefill`` → ``roles`` →
``cache`` → ``life`` (a request's way, as in the reference engine) → ``loop`` (which event is next) → ``engine`` (the
Python face). Every kernel function names the section of model.md that it implements.
"""
