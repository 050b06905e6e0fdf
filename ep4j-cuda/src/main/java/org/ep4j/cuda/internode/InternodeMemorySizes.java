package org.ep4j.cuda.internode;

/**
 * Sizes of a rank's transport memory between nodes.
 *
 * @param incomingBytes bytes of memory that ranks of other nodes write into
 * @param outgoingBytes bytes of memory that the transport reads if kernels cannot write to the
 *     destination
 * @param putBytes largest number of bytes of a put
 * @param counters counters of each rank, equal on all ranks
 * @param quiesceCounter the first counter of quiesce, one per rank
 * @param closedCounter the first of the counters that tell that a rank has closed, one per rank,
 *     which are the last counters
 */
record InternodeMemorySizes(
    long incomingBytes,
    long outgoingBytes,
    long putBytes,
    int counters,
    int quiesceCounter,
    int closedCounter) {}
