// Package foreign reads what other simulators wrote and writes what they
// read: results into trial sets, membership lists, routing files. Topologies
// ("x,y" lines) and churn traces (three columns) have their readers and
// writers in packages topologies and workloads.
//
// A malformed file is one error with file, line and column, and nothing of it
// is returned. Nothing here touches a network or runs anything. Values are
// not shared between calls, so nobody serialises them.
//
// # Results of the Camera Java simulator
//
// A concatenation of JSON objects, one a run, as its scripts append them:
// nothing, white space or stray text lines ("run_num 3") between them.
// Fields, as found in the authors' published raw files and in the classes
// that write them (github.com/amankhinvasara/camera, package utils.metric):
//
//	N                  nodes
//	conc_requesters    requests injected
//	msg_drop_rate      loss of a hop, 0..1
//	ir_ratio           factor on the interarrival time of 200 ms
//	churn_ratio        of its configuration, whether the run used churn or not
//	algorithmMetric    waitTimes     ms, one a served request, in order of entry
//	                   arrivals      ms, when each request was begun
//	                   clientDelay   second entry less first exit, ms
//	                   slows         requests with at most half the nodes listed
//	                   max_rec_OK_sizes  largest recentlyOKed set of each node
//	networkMetric      e2eMsgTotal, h2hMsgTotal          messages
//	                   e2eMsgSizeTotal, h2hMsgSizeTotal  bytes, Java serialisation
//	                   RAe2eMsgSizeTotal                 without the set, estimated
//	qualityMetric      unsafePairs, worstVioCount, vioTimeRatio (later versions)
//
// Workload and sweep are told by the file name alone:
// "<swept>--<temporal>_<spatial>.json.xz" or "concurrent-...", all at once.
//
// # Membership files
//
// One file "<id>.json" a node, rewritten by the Medley simulator every second
// and read by the others (classes MembershipParser, Membership; files in
// bin/membership of jiangranwang/LeaderElection and Inconsistency-on-Medley):
//
//	{"suspects": {"7": "165"}, "status": {"0": "active", "7": "suspect"}}
//
// Both objects are keyed by node id. A status is active, suspect or failed; a
// node that is missing from status is not listed. Suspects count how often
// the node was suspected, as a string of digits.
//
// memlist.csv is named by the project's brief, but is in none of the stored
// versions of the three public repositories, neither as a file nor as a name
// in their code, so its columns are not known. ReadMemlistSizes reads what
// WriteMemlistSizes writes, "time_ms,node,size" with a header, and with a
// column mapping any other file of one row a sample.
//
// # Routing files
//
// What bin/route.py writes and TopologyGenerator reads with optimize_route
// (jiangranwang/Inconsistency-on-Medley, bin/topo/grid10,10_route.txt): four
// sections, each a title line and one line "from,to,value" for all ordered
// pairs, a node with itself included:
//
//	dist_map:      Euclidean distance
//	hop_dist_map:  length of the path, metres
//	route_table:   a node on the path to "to" (see Routes)
//	hop_num_map:   links of the path
//
// # CSV
//
// For any other simulator: see ReadCSV.
package foreign
