"""What becomes of deliveries: tried again, given up, never lost, never sent twice without need."""

from datetime import timedelta
from pathlib import Path

import pytest
from conftest import Run
from mailservers import Received, free_port, header, mailing, post, scripted, talking
from outgoing import read
from servers import Says, serving
from station import DAY, HOUR, MAIL_CONFIG, Site, growing, judged

from cachewatch.errors import UsageError
from cachewatch.operators import alerts_summary_actions
from cachewatch.operators.status_problems_explanations import read_status
from cachewatch.store import delivery_queue_and_order as deliveries
from cachewatch.store.delivery_queue_and_order import Delivery, DeliveryState
from cachewatch.store.health_and_alerts import ChannelHealth

pytestmark = pytest.mark.usefixtures("loopback")

STATES = growing(5)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Upstream adds one package with each revision; a first pass was made."""
    made = Site(tmp_path, STATES)
    configure(made, free_port())
    made.run()
    return made


def configure(site: Site, port: int, text: str = MAIL_CONFIG) -> None:
    site.configure(text.replace("{port}", str(port)))


def mails(site: Site) -> list[Delivery]:
    """Return all deliveries by mail, oldest first."""
    return [each for each in site.deliveries() if each.channel == "mail"]


def states(site: Site, channel: str = "mail") -> dict[str, list[str]]:
    """Return the states of all deliveries, by target, oldest first."""
    found: dict[str, list[str]] = {}
    for each in site.deliveries():
        if each.channel == channel:
            found.setdefault(each.target.partition("@")[0], []).append(each.state)
    return found


def channel(site: Site) -> ChannelHealth:
    """Return how the channel of mail source_health."""
    (found,) = [each.health for each in read_status(site.open()).channels if each.health.name == "mail"]
    return found


def spans(received: list[Received], target: str) -> list[str]:
    """Return which revisions lie between the mails that somebody got, in the order of their arrival."""
    return [read(each.content)["X-Cachewatch-Revisions"] for each in received if each.recipient == target]


def span(site: Site, before: int, after: int) -> str:
    """Return how a mail names what lies between two revisions."""
    return f"{site.commits[before]}..{site.commits[after]}"


@pytest.mark.slow
def test_a_deferred_delivery_waits_longer_each_time(site: Site) -> None:
    with mailing(site, MAIL_CONFIG, by_recipient={"kim@example.org": "451 4.3.0 try later"}):
        site.publish(1)
        pauses = []
        for _ in range(6):
            site.run()
            (kim,) = [each for each in site.deliveries() if each.target == "kim@example.org"]
            assert kim.state == DeliveryState.DEFERRED
            pauses.append((kim.due - site.now).total_seconds() / 60)
            site.now = kim.due
    for pause, minutes in zip(pauses, (1, 5, 15, 60, 240, 240), strict=True):
        assert 0.9 * minutes <= pause <= 1.2 * minutes
    assert states(site)["lee"] == [DeliveryState.SENT]


@pytest.mark.slow
def test_a_server_that_asks_for_time_gets_it(site: Site) -> None:
    """More than the first pause would be, if that is what it wants."""
    text = MAIL_CONFIG.replace("  desk:", '  chat: {type: webhook, url: "{url}/"}\n  desk:')
    text = text.replace("to: [kim@example.org, lee@example.org], channels: [mail]", "channels: [chat]")
    with serving({"/": [Says(503, headers={"Retry-After": "1800"}), Says()]}) as server:
        site.configure(text.replace("{port}", "25").replace("{url}", server.url))
        site.run(1)
        site.run(later=timedelta(minutes=29))
        assert len(server.asked) == 1
        site.run(later=timedelta(minutes=1))
        assert len(server.asked) == 2
    assert [each.state for each in site.deliveries()] == [DeliveryState.SENT]


@pytest.mark.slow
def test_after_five_days_it_is_given_up_and_operators_hear_of_it(site: Site) -> None:
    with mailing(site, MAIL_CONFIG, by_recipient={"kim@example.org": "451 4.3.0 try later"}):
        site.run(1)
        assert site.run(later=timedelta(days=4, hours=23)).dead == 0
        assert site.run(later=timedelta(hours=5)).dead == 1
        assert site.run(later=timedelta(days=5)).dead == 0
    assert states(site) == {"kim": [DeliveryState.DEAD], "lee": [DeliveryState.SENT]}
    assert site.notices() == ["a digest could not be delivered to kim@example.org", "1 alert is open"]
    assert mails(site)[0].said.startswith("given up after 5 days: ")


@pytest.mark.slow
def test_time_in_which_operators_were_asked_does_not_count(site: Site) -> None:
    """Released after a week, it is not given up because a server says for once to come back later."""
    with post(by_recipient={"kim@example.org": "451 4.7.1 greylisted"}) as server:
        configure(site, server.port, MAIL_CONFIG.replace("changes: [all]", "changes: [all], limit: {hold_above: 1}"))
        site.run(2)
        assert states(site) == {"kim": [DeliveryState.HELD], "lee": [DeliveryState.HELD]}
        site.now += timedelta(days=7)
        alerts_summary_actions.release(site.open(), mails(site)[0].digest)
        assert site.run().dead == 0
        assert site.run(later=timedelta(days=4)).dead == 0
        assert site.run(later=timedelta(days=1)).dead == 1


def test_a_refused_address_is_not_tried_again_and_others_go_on(site: Site) -> None:
    with mailing(site, MAIL_CONFIG, by_recipient={"kim@example.org": "550 5.1.1 no such user"}):
        assert site.run(1).dead == 1
        (notice,) = (site.folder / "desk").rglob("*.txt")  # in the same pass, though that channel had its turn
        assert "cachewatch deliveries retry 1\n" in notice.read_text()
        site.run(later=HOUR)
    assert states(site) == {"kim": [DeliveryState.DEAD], "lee": [DeliveryState.SENT]}
    (kim, _) = mails(site)
    assert (kim.attempts, kim.said) == (1, "RCPT: 550 5.1.1 no such user")
    assert [event["level"] for event in site.events() if event["event"] == "delivery.dead"] == ["error"]


NO_USER = {"kim@example.org": "550 5.1.1 no such user"}


@pytest.mark.slow
@pytest.mark.both_states
def test_an_address_that_refuses_digests_for_days_gets_no_more_until_restored(site: Site) -> None:
    """What was kept for it is sent then, in order."""
    with mailing(site, MAIL_CONFIG, by_recipient=NO_USER) as server:
        for number in range(1, 5):
            site.run(number, later=1.5 * DAY)
        assert states(site)["kim"] == [DeliveryState.DEAD] * 3 + [DeliveryState.SUPPRESSED]
        server.by_recipient = {}
        alerts_summary_actions.restore(site.open(), "mail", "kim@example.org")
        site.run(later=HOUR)
    assert states(site)["kim"] == [DeliveryState.DEAD] * 3 + [DeliveryState.SENT]
    assert spans(server.received, "kim@example.org") == [span(site, 3, 4)]


@pytest.mark.slow
def test_refusals_within_two_days_suppress_nobody(site: Site) -> None:
    """However many they are: a server that is set up anew refuses everybody for a while."""
    with mailing(site, MAIL_CONFIG, by_recipient=NO_USER) as server:
        for number in range(1, 5):
            site.run(number, later=timedelta(hours=12))
        assert states(site)["kim"] == [DeliveryState.DEAD] * 4
        server.by_recipient = {}
        alerts_summary_actions.retry(site.open(), mails(site)[0].id)
        site.run()
        server.by_recipient = NO_USER
        alerts_summary_actions.retry(site.open(), mails(site)[-2].id)
        site.run(later=5 * DAY)
    assert DeliveryState.SUPPRESSED not in states(site)["kim"], "one was taken in between"
    assert not read_status(site.open()).suppressed


@pytest.mark.slow
def test_digests_that_were_given_up_for_other_reasons_are_no_refusals(site: Site) -> None:
    """A server that asked for patience did not refuse the address."""
    text = MAIL_CONFIG.replace("security: none}", "security: none}, retry: {for: 6h}")
    with mailing(site, text, by_recipient={"kim@example.org": "451 4.3.0 try later"}) as server:
        for number in (1, 2):
            site.publish(number)
            for _ in range(4):
                site.run(later=4 * HOUR)
            site.now += DAY
        assert states(site)["kim"] == [DeliveryState.DEAD] * 2
        server.by_recipient = NO_USER
        site.run(3, later=2 * DAY)
    assert states(site)["kim"] == [DeliveryState.DEAD] * 3
    assert not read_status(site.open()).suppressed


@pytest.mark.slow
def test_a_suppressed_address_is_tried_once_a_week(site: Site) -> None:
    """With the oldest digest that was kept; once it is taken, the others follow."""
    with mailing(site, MAIL_CONFIG, by_recipient=NO_USER) as server:
        for number in (1, 2, 3):
            site.run(number, later=2 * DAY)
        site.run(4, later=DAY)
        commands = len(server.commands)
        site.run(later=5 * DAY)
        assert len(server.commands) == commands
        site.run(later=DAY)
        assert server.commands[commands:] != []
        assert states(site)["kim"] == [DeliveryState.DEAD] * 3 + [DeliveryState.SUPPRESSED]
        server.by_recipient = {}
        site.run(later=6 * DAY)
        assert not spans(server.received, "kim@example.org")
        site.run(later=DAY)
    assert states(site)["kim"] == [DeliveryState.DEAD] * 3 + [DeliveryState.SENT]
    assert not read_status(site.open()).suppressed
    site.run()
    assert "kim@example.org receives digests again" in site.notices()[-2:]


READERS = [f"{name}@example.org" for name in ("kim", "lee", "ann", "max", "eva")]
OPERATORS_BY_MAIL = MAIL_CONFIG.replace("kim@example.org, lee@example.org", ", ".join(READERS)).replace(
    "operators: {channels: [desk]}", "operators: {channels: [mail], to: [ops@example.org]}"
)


@pytest.mark.both_states
@pytest.mark.parametrize("refusal", ["550 5.7.1 Relaying denied", "554 5.7.1 <{}>: Relay access denied"])
def test_a_server_that_refuses_everybody_costs_nobody_a_digest(site: Site, refusal: str) -> None:
    """It is the fault of the channel: nothing is used up, and nobody is suppressed, least of all operators."""
    everybody = [*READERS, "ops@example.org"]
    with post(by_recipient={address: refusal.format(address) for address in everybody}) as server:
        configure(site, server.port, OPERATORS_BY_MAIL)
        for number in (1, 2, 3):
            assert site.run(number, later=2 * DAY).dead == 0
        assert {(each.state, each.attempts) for each in mails(site)} == {(DeliveryState.QUEUED, 0)}
        (problem,) = judged(site).problems
        assert (problem.kind, "Rela" in problem.detail) == ("channel-down", True)
        assert not read_status(site.open()).suppressed
        server.by_recipient = {}
        site.run(later=2 * HOUR)
    for reader in READERS:
        assert spans(server.received, reader) == [span(site, number, number + 1) for number in range(3)]
    assert any(each.recipient == "ops@example.org" for each in server.received)


@pytest.mark.slow
def test_operators_are_never_suppressed(site: Site) -> None:
    """That they cannot be reached is a problem everywhere instead."""
    text = MAIL_CONFIG.replace("operators: {channels: [desk]}", "operators: {channels: [mail], to: [kim@example.org]}")
    with mailing(site, text, by_recipient=NO_USER) as server:
        for number in range(1, 5):
            site.run(number, later=2 * DAY)
        assert set(states(site)["kim"]) == {DeliveryState.DEAD}
        with site.open().database.write() as connection:
            deliveries.suppress_address(connection, "mail", "kim@example.org", "550 no", site.now)
        said = [problem.what for problem in judged(site).problems]
        suppressed = "an operator is suppressed in the channel mail"
        assert said == [suppressed, "operators cannot be reached through the channel mail"]
        server.by_recipient = {}
        site.run(later=HOUR)
    assert not read_status(site.open()).suppressed


@pytest.mark.slow
def test_the_last_address_of_a_subscription_is_a_problem_when_it_is_suppressed(site: Site, run: Run) -> None:
    config = ("--config", site.folder / "cachewatch.yaml")
    with site.open().database.write() as connection:
        deliveries.suppress_address(connection, "mail", "kim@example.org", "550 no", site.now)
    assert "problem: all recipients" not in run("status", "--check", *config).output
    with site.open().database.write() as connection:
        deliveries.suppress_address(connection, "mail", "lee@example.org", "550 no", site.now)
    problem = "all recipients of ml are suppressed in the channel mail: kim@example.org refused: 550 no"
    assert f"problem: {problem}" in run("status", "--check", *config).output_of(1)


@pytest.mark.slow
def test_a_server_that_cuts_the_connection_at_one_reader_delays_no_other(site: Site) -> None:
    """He is tried again later, and the channel goes on."""
    with talking(scripted(RCPT=lambda line: b"" if b"kim@example.org" in line else b"250 ok\r\n")) as port:
        configure(site, port)
        for number in (1, 2):
            site.run(number, later=HOUR)
            assert channel(site).blocked_until is None
    assert states(site) == {"kim": ["deferred", "queued"], "lee": ["sent", "sent"]}


@pytest.mark.slow
def test_a_server_that_cuts_every_connection_rests(site: Site) -> None:
    """After three readers, whoever they are: each may have taken its time."""
    cuts: list[bytes] = []

    def cut(line: bytes) -> bytes:
        cuts.append(line)
        return b""

    with talking(scripted(MAIL=cut)) as port:
        configure(site, port, OPERATORS_BY_MAIL)
        site.run(1)
    assert len(cuts) == 3
    assert channel(site).blocked_until is not None
    assert {each.attempts for each in mails(site)} == {0}


@pytest.mark.slow
def test_a_server_that_was_away_for_days_and_greylists_gives_nothing_up(site: Site) -> None:
    """The time in which it was away does not count, and one attempt is not several."""
    port = free_port()
    configure(site, port)
    site.publish(1)
    for _ in range(32):
        site.run(later=4 * HOUR)
    greylisted = {f"{name}@example.org": "451 4.7.1 greylisted" for name in ("kim", "lee")}
    with post(by_recipient=greylisted, port=port) as server:
        site.run(later=5 * HOUR)
        for _ in range(4 * 24 // 8):
            assert site.run(later=8 * HOUR).dead == 0
        assert {each.state for each in mails(site)} == {DeliveryState.DEFERRED}
        server.by_recipient = {}
        site.run(later=5 * HOUR)
    assert states(site) == {"kim": [DeliveryState.SENT], "lee": [DeliveryState.SENT]}


@pytest.mark.slow
def test_a_delivery_is_given_up_only_after_several_attempts_over_a_day(site: Site) -> None:
    """Though its time is over: the service may have been off, or have waited for something else."""
    with mailing(site, MAIL_CONFIG, by_recipient={"kim@example.org": "451 4.3.0 try later"}):
        site.run(1)
        assert site.run(later=6 * DAY).dead == 0
        assert site.run(later=HOUR).dead == 1


@pytest.mark.slow
def test_deliveries_are_retried_dropped_and_restored_by_filters(site: Site, run: Run) -> None:
    config = ("--config", site.folder / "cachewatch.yaml")
    with mailing(site, MAIL_CONFIG, by_recipient=NO_USER):
        for number in (1, 2):
            site.run(number, later=HOUR)
        done = run("deliveries", "retry", "--dead", "--target", "kim@example.org", *config)
        numbers = [each.id for each in mails(site) if each.target == "kim@example.org"]
        assert done.output.splitlines() == [f"{number}: due now" for number in numbers]
        assert run("deliveries", "retry", *config).exit_code == 2
        assert run("deliveries", "drop", "--dead", "--reason", "x", *config).exit_code == 2
        done = run("deliveries", "drop", "--open", "--channel", "mail", "--reason", "has left", *config)
        assert done.output.splitlines() == [f"{number}: dropped" for number in numbers]
        with site.open().database.write() as connection:
            for name in ("kim", "lee"):
                deliveries.suppress_address(connection, "mail", f"{name}@example.org", "550 no", site.now)
        done = run("deliveries", "restore", "mail", *config)
        assert done.output.splitlines() == [f"{name}@example.org: receives digests again" for name in ("kim", "lee")]
        assert run("deliveries", "restore", "mail", *config).exit_code == 2


@pytest.mark.slow
def test_a_server_that_is_away_is_asked_less_and_less_until_it_answers(site: Site) -> None:
    """Whichever message is next; and once it has answered, it is asked again as soon as before."""
    port = free_port()
    configure(site, port)
    site.publish(1)
    for minutes in (1, 5, 15, 60, 240):
        site.run()
        rests_until = channel(site).blocked_until
        assert rests_until is not None
        assert 0.9 * minutes <= (rests_until - site.now).total_seconds() / 60 <= 1.2 * minutes
        site.now = rests_until
    with post(port=port) as server:
        site.run()
        assert server.received
    site.run(2)
    rests_until = channel(site).blocked_until
    assert rests_until is not None
    assert rests_until - site.now <= timedelta(minutes=1.2)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")
def test_a_wrong_password_blocks_the_channel_and_uses_up_nothing(site: Site) -> None:
    wrong = MAIL_CONFIG.replace("security: none", "security: none, user: cachewatch, password: no")
    with post(replies={"AUTH": ["535 5.7.8 wrong"]}, auth_required=True, auth_require_tls=False) as server:
        configure(site, server.port, wrong)
        site.run(1)
        site.run(later=timedelta(minutes=10))
        assert server.sessions == 1  # not asked again within the hour
        found = {(each.state, each.attempts) for each in site.deliveries() if each.channel == "mail"}
        assert found == {(DeliveryState.QUEUED, 0)}
        assert site.notices() == ["the channel mail does not work"]
        assert states(site, "desk")
        server.replies.clear()
        configure(site, server.port, wrong.replace("password: no", "password: s3cr3t"))
        site.run(later=2 * HOUR)
        site.run(later=2 * HOUR)
    assert states(site) == {"kim": [DeliveryState.SENT], "lee": [DeliveryState.SENT]}
    assert site.notices()[-1] == "the channel mail works again"
    assert "s3cr3t" not in site.said.getvalue()


def test_what_was_dead_is_retried_with_the_same_bytes(site: Site) -> None:
    with mailing(site, MAIL_CONFIG, by_recipient={"kim@example.org": "550 5.1.1 no such user"}) as server:
        site.run(1)
        server.by_recipient = {}
        (kim, _) = mails(site)
        alerts_summary_actions.retry(site.open(), kim.id)
        site.run()
    (received,) = [each for each in server.received if each.recipient == "kim@example.org"]
    assert header(received.content, "Message-ID") == kim.message_id
    assert site.notices() == [f"a digest could not be delivered to {kim.target}", f"{kim.target} can be reached again"]


@pytest.mark.slow
@pytest.mark.both_states
def test_what_was_sent_is_resent_as_a_new_message(site: Site) -> None:
    with mailing(site, MAIL_CONFIG) as server:
        site.run(1)
        (kim, _) = mails(site)
        alerts_summary_actions.resend(site.open(), kim.id)
        site.run()
        with pytest.raises(UsageError, match="only what was not sent"):
            alerts_summary_actions.retry(site.open(), kim.id)
    first, _, again = [received.content for received in server.received]
    assert header(again, "Message-ID") != header(first, "Message-ID")
    assert header(again, "References") == header(first, "Message-ID")
    assert header(again, "Subject").startswith("Resent: ")


@pytest.mark.slow
@pytest.mark.parametrize(("refusals", "state"), [(1, DeliveryState.SENT), (4, DeliveryState.DEAD)])
def test_what_is_too_large_is_sent_in_short(site: Site, refusals: int, state: DeliveryState) -> None:
    """What is too large in short, too, is given up."""
    with mailing(site, MAIL_CONFIG, replies={"DATA": ["552 5.3.4 too big"] * refusals}) as server:
        site.run(4)
        site.run()
    assert states(site) == {"kim": [state], "lee": [state]}
    if state is DeliveryState.SENT:
        kim, lee = sorted(server.received, key=lambda received: received.recipient)
        assert len(kim.content) < len(lee.content)
