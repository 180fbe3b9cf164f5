// Package maekawa is mutual exclusion by voting sets that intersect: M.
// Maekawa, "A sqrt(N) Algorithm for Mutual Exclusion in Decentralized
// Systems", ACM TOCS 3(2), 1985; a baseline of ALGORITHMS section 3. A node
// asks only its voting set, every node has one vote, and a request that has
// all votes of its set enters.
//
// The voting set of a node is its row and its column of the id-sorted
// membership list, itself included, laid row by row into a matrix that is
// ceil(sqrt(N)) wide (VotingSet). Of two nodes of one matrix, the one in the
// upper row has a full row (or both are in the same), so that the column of
// the other meets it: any two sets intersect, and a common member votes for one
// of them at a time. This holds for equal lists only. Lists that differ shift
// everyone behind the difference, and sets may become disjoint: both enter
// (testdata/maekawa-disjoint.txt). Showing that is the purpose of the package.
//
// # Two variants
//
// Config.Basic (maekawa-basic) is the short description: one OK out at a time,
// the queue in order of arrival, RELEASE passes the vote on. It deadlocks where
// two requests hold a vote each that the other needs.
//
// The other (maekawa) prefers the request with the smaller (timestamp, id) and
// lets a vote be taken back, by the rules of Maekawa 1985, section 3, in the names used
// there (its LOCKED is OK here):
//
//   - A voter that is locked queues a REQUEST. If the locked request or another
//     queued one precedes it, the voter answers FAILED. Otherwise it sends
//     INQUIRE to the locked request, once for each lock.
//   - A requester that gets INQUIRE answers RELINQUISH if it knows that it
//     cannot get all votes now: some voter's last word is FAILED, or it has
//     relinquished a vote and not got it again. If it does not know yet, the
//     answer waits until it does; if it has all votes, RELEASE is the answer.
//   - RELINQUISH puts the request back into the queue, and the vote goes to
//     the first in the queue.
//   - B. A. Sanders, "The Information Structure of Distributed Mutual Exclusion
//     Algorithms", ACM TOCS 5(3), 1987, found that this can deadlock: a request that
//     was first in the queue, so that it got no FAILED, must get it when a new
//     one is put before it. See Displaced.
//
// Every wait then ends: of the requests that wait, the first is first in all
// its queues, so whoever has one of its votes is inquired. Such a holder, if
// told of no FAILED, is first in its queues too, and waits only for holders
// behind it in the order; the last of such a chain knows of a FAILED or has
// all votes.
//
// # Messages out of order
//
// An answer names its request, and a request its node's life. Since one
// request may get, give back and get again the vote of one voter, votes are
// also numbered: OK, FAILED, INQUIRE and RELINQUISH carry a round, which
// RELINQUISH raises. Without it, a late or repeated OK would count as the vote
// that was given back. Messages are handled the same however often they come.
// A REQUEST or a RELEASE ends the earlier requests of its node, so one
// that takes another's place in the transport loses nothing. RELEASE is
// Reliable, unlike Camera's: a lost one would block the voter.
//
// # Membership
//
// The set is computed at enter; who joins later is asked by the next request.
//
//   - A member declared failed is dropped from the current request, as the
//     baseline in Camera's evaluation goes on without it, and
//     from the matrix of the next. Where it was the only common member,
//     two requests now enter at once: the algorithm is not safe under churn.
//     If it is listed again while the request waits, it is asked again.
//   - A member known in a newer process life forgot its vote: asked again
//     while the request waits, but not when it is already in the section.
//   - A voter takes its vote from a node declared failed and parks what that node
//     has queued; if it is listed again in the same life, its
//     request joins the queue anew. What a former life asked for is over.
//   - A RELEASE that was due to a node declared failed is sent when it is
//     listed again. A restarted one may need it as well: the REQUEST that the
//     transport repeats may have reached its new life.
//   - An OK or INQUIRE for a request that is over, of a voter that knows no
//     better because it or the requester restarted, is answered by RELEASE.
//
// The owner serialises all calls.
package maekawa
