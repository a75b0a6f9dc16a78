"""Which stored scenarios a question is about, and how they are grouped. Not here: what is asked of them."""
