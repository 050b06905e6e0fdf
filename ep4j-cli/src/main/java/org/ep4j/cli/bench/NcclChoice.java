package org.ep4j.cli.bench;

/**
 * Work of NCCL in a bench on GPUs.
 *
 * @param background whether to measure again during all-reduces on the same GPUs
 * @param against whether NCCL also exchanges the bytes between nodes, for comparison
 */
record NcclChoice(boolean background, boolean against) {}
