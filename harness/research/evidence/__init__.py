"""What scores say, and how surely: pure rules and statistics that a decision rests on."""
