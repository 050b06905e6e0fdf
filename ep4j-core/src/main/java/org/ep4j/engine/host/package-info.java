/**
 * The host engine: dispatch and combine by load and store between the ranks of one host, threads or
 * processes.
 */
@NullMarked
package org.ep4j.engine.host;

import org.jspecify.annotations.NullMarked;
