package scenario

// Spec holds the value of every key before and after resolving.
type Spec struct{}
