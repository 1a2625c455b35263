"""Task formats: how the tasks of a subject are written down, each read into one folder of inputs and labels a task."""
