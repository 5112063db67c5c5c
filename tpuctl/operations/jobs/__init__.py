"""Operations on jobs: submit, watch, retry, supervise, and what is asked about them."""
