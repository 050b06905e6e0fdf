/** Frames, challenge, connections and the state of a group. */
@NullMarked
package org.ep4j.group.protocol;

import org.jspecify.annotations.NullMarked;
