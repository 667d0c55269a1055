"""Render digests: their sentences, their data for templates, and their forms (mails, pages, chats and others)."""
