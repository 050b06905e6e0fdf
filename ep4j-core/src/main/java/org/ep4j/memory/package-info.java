/**
 * Symmetric memory: the same number of bytes on every rank, which all ranks of the node reach by
 * load and store. Two kinds: threads of one JVM, and processes of one host.
 */
@NullMarked
package org.ep4j.memory;

import org.jspecify.annotations.NullMarked;
