/**
 * The buffer of the host engine, which dispatches and combines by loads and stores between the
 * ranks of one host (threads or processes), and over wires between nodes: its opening, its memory,
 * its recovery, and the entry of its operations.
 */
@NullMarked
package org.ep4j.engine.host.buffer;

import org.jspecify.annotations.NullMarked;
