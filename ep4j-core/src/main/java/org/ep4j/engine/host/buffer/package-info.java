/**
 * The host engine: dispatch and combine by loads and stores between the ranks of one host (threads
 * or processes), and over wires between nodes.
 */
@NullMarked
package org.ep4j.engine.host.buffer;

import org.jspecify.annotations.NullMarked;
