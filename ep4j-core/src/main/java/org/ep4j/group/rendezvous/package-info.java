/** How ranks join, leave and rejoin a group, and how its rendezvous moves. */
@NullMarked
package org.ep4j.group.rendezvous;

import org.jspecify.annotations.NullMarked;
