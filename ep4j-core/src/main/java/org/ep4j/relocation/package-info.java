/**
 * Moves the weights of experts between ranks while operations continue: {@link
 * org.ep4j.relocation.ExpertRelocation}.
 */
@NullMarked
package org.ep4j.relocation;

import org.jspecify.annotations.NullMarked;
