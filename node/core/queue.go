package core

// Queue holds values by instant and, of the same instant, in the order of
// pushing, in a binary heap. The zero value is empty.
type Queue[V any] struct {
	items []queued[V]
	seq   uint64
}

type queued[V any] struct {
	at    Instant
	seq   uint64
	value V
}

func (a *queued[V]) before(b *queued[V]) bool { return a.at < b.at || a.at == b.at && a.seq < b.seq }

// Len returns the number of values.
func (q *Queue[V]) Len() int { return len(q.items) }

// Next returns the instant of the first value, Never where there is none.
func (q *Queue[V]) Next() Instant {
	if len(q.items) == 0 {
		return Never
	}
	return q.items[0].at
}

// Push adds a value.
func (q *Queue[V]) Push(at Instant, v V) {
	q.seq++
	x := queued[V]{at, q.seq, v}
	q.items = append(q.items, x)
	items := q.items
	i := len(items) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !x.before(&items[up]) {
			break
		}
		items[i] = items[up]
		i = up
	}
	items[i] = x
}

// Pop removes the first value and returns it with its instant; the queue must
// not be empty.
func (q *Queue[V]) Pop() (Instant, V) {
	top, n := q.items[0], len(q.items)-1
	x := q.items[n]
	q.items[n].value = *new(V) // or what it points to would be kept
	items := q.items[:n]
	q.items = items
	if n == 0 {
		return top.at, top.value
	}
	i := 0
	for {
		c := 2*i + 1
		if c >= n {
			break
		}
		if c+1 < n && items[c+1].before(&items[c]) {
			c++
		}
		if !items[c].before(&x) {
			break
		}
		items[i] = items[c]
		i = c
	}
	items[i] = x
	return top.at, top.value
}
