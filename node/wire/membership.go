package wire

// Membership messages: kinds 1 to 31.

var membershipKinds = []kind{}
