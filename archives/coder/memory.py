"""What the agent remembers of a conversation: the task always, and as much of the rest as fits."""

LIMIT = 12_000


class Memory:
    """Messages for the model, oldest forgotten first, and a trace of everything."""

    def __init__(self, system, task):
        self._head = [{"role": "system", "content": system}, {"role": "user", "content": task}]
        self._tail = []
        self._trace = []

    def said(self, reply):
        self._tail.append({"role": "assistant", "content": reply})
        self._trace.append(reply)

    def saw(self, seen):
        self._tail.append({"role": "user", "content": seen})
        self._trace.append(f"[{seen}]")

    def messages(self):
        kept, room = [], LIMIT - sum(len(one["content"]) for one in self._head)
        for message in reversed(self._tail):
            room -= len(message["content"])
            if room < 0:
                break
            kept.insert(0, message)
        return self._head + kept

    def trace(self):
        return "\n".join(self._trace)
