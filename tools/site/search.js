/* SPDX-License-Identifier: BSD-2-Clause */
/* The search page: the words of ?q=, and those that are typed. The index is a script, so a page that is a file has it too. */
(function () {
  "use strict";
  var field = document.getElementById("words"), list = document.getElementById("found");
  var documents = {}, index = lunr(function () {
    this.field("title", {boost: 5});
    this.field("text");
    this.ref("location");
    site_index.docs.forEach(function (page) {
      documents[page.location] = page;
      this.add(page);
    }, this);
  });

  /* A word counts as itself and as the beginning of a longer one. */
  function find(words) {
    return index.query(function (query) {
      lunr.tokenizer(words.join(" ")).forEach(function (token) {
        query.term(String(token), {boost: 10});
        query.term(String(token), {wildcard: lunr.Query.wildcard.TRAILING, usePipeline: false});
      });
    });
  }

  /* The text around the first of the words that stands in it. */
  function excerpt(text, words) {
    var places = words.map(function (word) { return text.toLowerCase().indexOf(word); });
    var at = Math.min.apply(null, places.filter(function (place) { return place >= 0; }).concat(text.length));
    var from = at == text.length ? 0 : text.lastIndexOf(" ", Math.max(0, at - 60)) + 1;
    return (from ? "... " : "") + text.slice(from, from + 200);
  }

  function element(parent, tag, text) {
    var made = parent.appendChild(document.createElement(tag));
    made.textContent = text;
    return made;
  }

  function show() {
    var words = field.value.toLowerCase().split(/\s+/).filter(Boolean), found = words.length ? find(words) : [];
    list.textContent = "";
    found.slice(0, 40).forEach(function (one) {
      var page = documents[one.ref], whole = documents[page.location.split("#")[0]];
      element(element(list, "h3", ""), "a", whole == page ? page.title : whole.title + ": " + page.title).href = page.location;
      element(list, "p", excerpt(page.text, words));
    });
    if (words.length && !found.length)
      element(list, "p", "Nothing found.");
  }

  field.value = new URLSearchParams(location.search).get("q") || "";
  field.addEventListener("input", show);
  field.form.addEventListener("submit", function (event) { event.preventDefault(); });
  show();
})();
