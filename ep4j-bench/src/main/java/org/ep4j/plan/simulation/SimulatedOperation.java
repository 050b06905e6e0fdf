package org.ep4j.plan.simulation;

/**
 * A simulated dispatch or combine.
 *
 * @param micros until the last row has arrived on any rank, the start of kernels included,
 *     microseconds
 * @param busiest the resource that worked longest
 * @param busiestRank the rank of it
 * @param busiestShare part of {@code micros} in which it worked, 0 to 1
 * @param rows that arrived at all ranks; a combine counts the rows that it sums
 * @param events that were simulated
 * @param chunkRows greatest number of rows that moved as a unit
 */
public record SimulatedOperation(
    double micros,
    Resource busiest,
    int busiestRank,
    double busiestShare,
    double rows,
    long events,
    double chunkRows) {}
