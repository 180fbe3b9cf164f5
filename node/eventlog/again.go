package eventlog

// Again is the Text of a "token" line of a node that acts for a failed one,
// which may have told the same before.
const Again = "again"
