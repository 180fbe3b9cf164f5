package core

// Heap is a binary min-heap. Its zero value with Less set is empty; Less must
// be a strict order, total where the order of equal items matters.
type Heap[T any] struct {
	Less  func(a, b *T) bool
	items []T
}

// Len returns the number of items.
func (h *Heap[T]) Len() int { return len(h.items) }

// Min returns the least item; the heap must not be empty.
func (h *Heap[T]) Min() *T { return &h.items[0] }

// Push adds an item.
func (h *Heap[T]) Push(v T) {
	h.items = append(h.items, v)
	i := len(h.items) - 1
	for i > 0 {
		p := (i - 1) / 2
		if !h.Less(&h.items[i], &h.items[p]) {
			break
		}
		h.items[i], h.items[p] = h.items[p], h.items[i]
		i = p
	}
}

// Pop removes and returns the least item; the heap must not be empty.
func (h *Heap[T]) Pop() T {
	top := h.items[0]
	n := len(h.items) - 1
	h.items[0] = h.items[n]
	var zero T
	h.items[n] = zero
	h.items = h.items[:n]
	for i := 0; ; {
		l := 2*i + 1
		if l >= n {
			break
		}
		if r := l + 1; r < n && h.Less(&h.items[r], &h.items[l]) {
			l = r
		}
		if !h.Less(&h.items[l], &h.items[i]) {
			break
		}
		h.items[i], h.items[l] = h.items[l], h.items[i]
		i = l
	}
	return top
}
