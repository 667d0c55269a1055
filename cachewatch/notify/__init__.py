"""The service: ask sources, tell subscriptions, deliver. `passes.py` shows the whole flow; read it first.

resuming.py    what another process left -> taken up, and what time broke -> put right
clocks.py      times that lie further ahead than they can -> computed anew
outages.py     time in which nothing ran -> counts against nothing
repairing.py   stored bytes that are damaged -> made anew, or set aside
backoff.py     an attempt that failed -> how long to wait
polling.py     a source -> its newest revision, and how the source source_health
streams.py      a subscription -> who is told, when: its regular digests and its urgent ones
spans.py       cursors and a newest revision -> what lies between
parts.py       a source and what lies between -> what it gives to a digest
composing.py   a stream -> the digest it is due, or none
announcing.py  digest, deliveries and cursors -> the state, in one transaction
delivering.py  what the state holds -> out, message by message
readers.py     a delivery that waits -> whether the configuration, as it is now, still wants it
operators.py   a notice -> the outbox, for those who run this
alerts.py      what operators have to know until it is over: opened once, resolved once
holding.py     held digests -> what operators are asked, once for each event
reviewing.py   the state -> alerts that follow from it, and those that are over
summaries.py   open alerts -> a notice a day
"""
