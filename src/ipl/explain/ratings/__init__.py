"""Words rated by people, who do not know where each word comes from."""
