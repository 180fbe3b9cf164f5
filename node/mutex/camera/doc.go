// Package camera is the hardened Camera algorithm (ALGORITHMS 2.3): mutual
// exclusion on a mesh whose membership lists are incomplete and churn. It is
// the fast path with the remedies of ALGORITHMS 2.2; each is marked with its
// trap number. A node that cannot gather grants of more than NUpper/2 nodes,
// because its list is too short or too many peers are amnesiac, takes the slow
// path (2.5) where Config.Slow is on, and else waits in WAIT until it can.
// While it waits it asks every peer that appears and asks again, slowly, those
// whose OK did not count. A grant through the tree does the same bookkeeping
// as an OK; grants are kept by node, so that a repetition or an adoption counts
// once; news of restarts are taken in before grants are counted, and grants of
// an older life or of a peer already given up are dropped. The published text is package camerapaper. The owner serialises all
// calls.
//
// # Why two nodes are never both HELD
//
// Every grant is an OK of a process that remembers it in rec until the request
// is over, and each later OK of that process names it. Two requests that both
// hold grants of more than NUpper/2 nodes share a granting node x. Whichever x
// granted second learned of the other through x's OK and asked its node
// itself, which defers one of the two (Ricart and Agrawala 1981). A silent OK
// is no grant and un-asks the peer, so later evidence asks it again (H5b/c).
//
// What counts as a life here is one process start (Incarnation.Start): an
// incarnation that a node raises while it runs, to refute a suspicion or after
// a forced leave, forgets nothing. A request of an earlier process start is
// over, since its process is dead.
//
// # Amnesia (H4a)
//
// A process that starts where an earlier one may have granted requests is
// amnesiac: it is no grant of its own requests and says so in its OKs, which
// then are no grants either. It asks every member RECOVER. A member that is not
// amnesiac answers with its rec, its own request, and the lives it knows of
// restarted nodes. An amnesiac member answers when it is amnesiac no more. The
// process stops being amnesiac when A = ceil(NUpper/2) other nodes have
// answered, each in the newest life of which the process then knows; an answer
// of an older life is dropped and asked again. Every OK carries the lives that
// its sender knows and the receiver is not known to have heard from it; a
// requester that so learns of a newer life of k takes back k's grant and asks
// again.
//
// Claim: let x' be a recovered life of x, and r a request of p that an older
// life of x granted. Then r is in rec of x', or is over, or p never becomes HELD
// on the strength of that grant.
//
// Suppose p became HELD with it, by the grants G, more than NUpper/2. G less x
// has at least floor(NUpper/2) nodes and A has ceil(NUpper/2), all among the
// NUpper-1 others: some y is in both. Let yg be the life of y that granted r
// and ya the one that answered x'.
//   - yg = ya, granted before it answered: r was in its rec, hence in the
//     answer, unless it was over.
//   - yg = ya, granted after it answered: the OK carried x', so p took back
//     x's grant before it counted y's.
//   - yg < ya: by the claim for ya, which recovered earlier, r was in rec of ya,
//     or over, or p did not count yg.
//   - yg > ya: by the lemma below yg knows x' when it grants, as above.
//   - y = p: an answer from p carries its own request, and p, hearing RECOVER
//     while it waits, takes the grant back. A later life of p has no request
//     that the older life of x could have granted, which was dead by then.
//
// Lemma: if x' counts the answer of an older life of y, and y's next life y'
// recovers, then y' knows x' when it has recovered. For suppose not, and that
// x' did not know y' (else it would have dropped the answer). y' counts no
// older life of x: it was dead when y answered x', and y' began later. So both
// quorums, x's less y, ceil(NUpper/2)-1, and y's, ceil(NUpper/2), lie among
// NUpper-2 nodes and share a z. If the same life of z answered both, then the
// answer it gave second carried the first asker's life to the second asker: a
// contradiction. If not, the older answer of z and the newer life of z are
// such a pair with x' or with y', whose recoveries end earlier (compare the
// later, then the earlier of the two ends); the first such pair has no
// predecessor. This is the crash-consistent quorum of Michael, Ports, Sharma
// and Szekeres, "Recovering Shared Objects Without Stable Storage", DISC 2017;
// without the lives in RECOVERED and the dropped answers the recovery is
// unsafe (testdata/h4a-stale-answer.txt).
//
// With no such quorum of nodes that remember, for example after all nodes
// restarted at once, everyone stays amnesiac and nobody enters.
//
// # Durable state
//
// With Config.Durable a process that starts again is not amnesiac: it finds
// rec, its clock, the bound NUpper and the lives that it knew of, as they were
// when it sent its last message. Effects.Persist is carried out before the
// messages of its step, so nothing that others have heard is missing. Then r of
// the claim above is in rec of x', or over; and of the lemma's y', since y knew
// x' when it answered. A life that finds no such state, or one of an amnesiac
// life, is amnesiac as before; a first life keeps something at once, so that a
// lost file is told from nothing granted. What ended while the process was dead
// stays in rec until its node asks again: a node asked too many, no harm. An
// estimated bound is kept as the least of what the estimator will say: before
// that it may be too low, since others came while the process was dead.
//
// # Failures
//
// A peer whose failure is detected is given up (silent OK) only SuspicionWait
// later; a message of the peer meanwhile starts that wait anew, MemberUp ends
// it, a graceful leave is taken at once. Then the peer's entries in rec and def
// go as well, so that a dead holder is not named for ever. This is where Camera
// relies on failure detection: a live holder that every detector calls dead
// must have left (Fence) within that wait (ALGORITHMS 2.4).
//
// A silent OK counts only with grants that are newer than the failure was
// detected (renew): those who granted before are asked again. So nobody enters
// past a holder that stands still before a majority that can be reached has
// spoken after that holder fell silent.
//
// A peer learned from an OK is told to the membership service (Effects.Learned),
// whose failure detection then covers it (H8). Under static membership nobody
// does: a request that learned of a dead node waits.
package camera
