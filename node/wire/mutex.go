package wire

// Mutual-exclusion messages: kinds 32 to 63.

var mutexKinds = []kind{}
