"""Ask servers over HTTP, patiently but not for ever. `client.py` talks to httpx2.

`Client.get` is for sources: it tries again, follows redirects, and gives credentials to
nobody but the server they are for. `post` is for webhooks: one attempt, no redirects, and
whatever the server answered. Both end at a deadline, whatever the server does, and read no
more than they were told to.

Nothing here ever says a password, a token or the query of an address.
"""

from cachewatch.http.client import Client, post
from cachewatch.http.logins import basic, bearer
from cachewatch.http.urls import check_secrecy, check_url, origin, shown
from cachewatch.http.values import Answer, Limits, Request

__all__ = [
    "Answer",
    "Client",
    "Limits",
    "Request",
    "basic",
    "bearer",
    "check_secrecy",
    "check_url",
    "origin",
    "post",
    "shown",
]
