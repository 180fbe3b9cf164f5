package minimise

// ddmin returns a part of items, in their order, for which fails is true and
// no longer so without any one of it (1-minimal). fails(items) must be true.
// Where fails returns an error, the smallest part found so far comes with it.
func ddmin[T any](items []T, fails func(part []T) (bool, error)) ([]T, error) {
	if len(items) == 0 {
		return items, nil
	}
	if bad, err := fails(nil); err != nil {
		return items, err
	} else if bad {
		return nil, nil
	}
	for n := 2; len(items) > 1; {
		n = min(n, len(items))
		part, chunks, err := reduce(items, n, fails)
		if err != nil {
			return items, err
		}
		switch {
		case part != nil:
			items, n = part, chunks
		case n == len(items):
			return items, nil
		default:
			n *= 2
		}
	}
	return items, nil
}

// reduce looks for a failing part among n chunks of items and among what is
// left without each; it returns the first, with the number of chunks to go on
// with, or nil.
func reduce[T any](items []T, n int, fails func([]T) (bool, error)) (part []T, chunks int, err error) {
	bound := func(i int) int { return i * len(items) / n }
	for i := range n {
		chunk := items[bound(i):bound(i+1)]
		if bad, err := fails(chunk); err != nil || bad {
			return chunk, 2, err
		}
	}
	if n == 2 {
		return nil, 0, nil // each chunk is what is left without the other
	}
	for i := range n {
		rest := append(items[:bound(i):bound(i)], items[bound(i+1):]...)
		if bad, err := fails(rest); err != nil || bad {
			return rest, max(n-1, 2), err
		}
	}
	return nil, 0, nil
}
