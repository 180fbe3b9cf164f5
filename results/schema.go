package results

import _ "embed"

// SummarySchema is the JSON Schema (draft 2020-12) of summary.json.
//
//go:embed schema/summary.schema.json
var SummarySchema []byte
