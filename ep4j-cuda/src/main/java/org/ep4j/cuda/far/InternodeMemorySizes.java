package org.ep4j.cuda.far;

/**
 * What a rank has of memory for what travels between nodes.
 *
 * @param incomingBytes of memory that ranks of other nodes write into
 * @param outgoingBytes of memory from which is carried what they cannot be given otherwise
 * @param counters of each rank, the same on all
 * @param quiesceCounter the first of those that tell that nothing more comes, one a rank; they end
 *     the counters
 */
record InternodeMemorySizes(
    long incomingBytes, long outgoingBytes, int counters, int quiesceCounter) {}
