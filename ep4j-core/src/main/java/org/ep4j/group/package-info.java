/**
 * Group membership: the ranks of one job find each other, exchange small byte arrays, and detect
 * the death of a peer. Over TCP between processes, over shared memory between threads of one JVM.
 */
@NullMarked
package org.ep4j.group;

import org.jspecify.annotations.NullMarked;
