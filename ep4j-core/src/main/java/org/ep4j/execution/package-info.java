/** When and where an operation runs: streams, events, and receive hooks. */
@NullMarked
package org.ep4j.execution;

import org.jspecify.annotations.NullMarked;
