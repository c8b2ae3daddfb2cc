package simulate

// open are the seeds whose faults are known and not mended yet.
var open = []uint64{14, 22, 37, 58, 112, 120, 138, 173, 176, 191}
