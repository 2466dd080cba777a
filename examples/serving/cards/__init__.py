"""The value of a card now: a stream writes slices, a service reads windows of them."""
