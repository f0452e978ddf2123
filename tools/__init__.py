"""Commands that build, check and show this project; none of them is part of the wheel."""
