package org.ep4j.cli.bench;

/**
 * What NCCL does in a bench on GPUs.
 *
 * @param background whether everything is measured again while it reduces on the same GPUs
 * @param against whether it exchanges the bytes that go between nodes, too
 */
record NcclChoice(boolean background, boolean against) {}
