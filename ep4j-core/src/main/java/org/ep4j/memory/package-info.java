/**
 * Symmetric memory: the same number of bytes on every rank, each rank's bytes reachable by load and
 * store from all ranks of the node. Two kinds: threads of one JVM, and processes of one host.
 */
@NullMarked
package org.ep4j.memory;

import org.jspecify.annotations.NullMarked;
